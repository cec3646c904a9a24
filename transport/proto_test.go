package transport

import (
	"context"
	"math/rand/v2"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/changefeed"
	"github.com/sluice-cdc/sluice/scheduler"
)

// parsed is the protocol file, after edits of pairs of old and new.
func parsed(t *testing.T, edits ...string) protoreflect.FileDescriptor {
	t.Helper()
	text, err := os.ReadFile("peers.proto")
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(edits); i += 2 {
		if !strings.Contains(string(text), edits[i]) {
			t.Fatalf("no %q in peers.proto", edits[i])
		}
	}
	source := map[string]string{"peers.proto": strings.NewReplacer(edits...).Replace(string(text))}
	c := protocompile.Compiler{Resolver: &protocompile.SourceResolver{Accessor: protocompile.SourceAccessorFromMap(source)}}
	files, err := c.Compile(context.Background(), "peers.proto")
	if err != nil {
		t.Fatal(err)
	}
	return files[0]
}

// dynamic is a frame as protobuf's own library reads it by the protocol file.
func dynamic(t *testing.T, file protoreflect.FileDescriptor, b []byte) *dynamicpb.Message {
	t.Helper()
	m := dynamicpb.NewMessage(file.Messages().ByName("Frame"))
	if err := proto.Unmarshal(b, m); err != nil {
		t.Fatal(err)
	}
	return m
}

// known fails where a message, or one within, has a field that its file does not have.
func known(t *testing.T, m protoreflect.Message) {
	t.Helper()
	if len(m.GetUnknown()) > 0 {
		t.Errorf("%s: fields that peers.proto does not have: %x", m.Descriptor().Name(), m.GetUnknown())
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if f.Kind() != protoreflect.MessageKind {
			return true
		}
		if f.IsList() {
			for i := range v.List().Len() {
				known(t, v.List().Get(i).Message())
			}
		} else {
			known(t, v.Message())
		}
		return true
	})
}

// fill sets every field of a struct, with words that there are.
func fill(r *rand.Rand, v reflect.Value) {
	switch v.Type() {
	case reflect.TypeFor[scheduler.Verb]():
		v.SetUint(1 + r.Uint64N(3))
		return
	case reflect.TypeFor[scheduler.Phase]():
		v.SetUint(r.Uint64N(6))
		return
	case reflect.TypeFor[capture.Liveness]():
		v.SetUint(r.Uint64N(2))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(r, v.Field(i))
		}
	case reflect.Slice:
		n := r.IntN(4)
		if n == 0 {
			return // nil: on the wire there is no other emptiness
		}
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			fill(r, v.Index(i))
		}
	case reflect.String:
		b := make([]byte, r.IntN(12)) // keys are bytes, and ids are text
		for i := range b {
			b[i] = byte('a' + r.IntN(26))
		}
		v.SetString(string(b))
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	case reflect.Int, reflect.Int64:
		v.SetInt(r.Int64() >> r.IntN(64) * int64(1-2*r.IntN(2)))
	case reflect.Uint8:
		v.SetUint(r.Uint64N(256))
	case reflect.Uint32:
		v.SetUint(uint64(r.Uint32()) >> r.IntN(33))
	case reflect.Uint64:
		v.SetUint(r.Uint64() >> r.IntN(65))
	default:
		panic("a field of type " + v.Type().String() + " in scheduler's messages: fill it, and send it")
	}
}

func random(r *rand.Rand) Message {
	m := Message{Changefeed: changefeed.ID{Namespace: "default", Name: "feed"}}
	if r.IntN(2) == 0 {
		m.Orders = &scheduler.Orders{}
		fill(r, reflect.ValueOf(m.Orders).Elem())
		return m
	}
	m.Report = &scheduler.Report{}
	fill(r, reflect.ValueOf(m.Report).Elem())
	return m
}

func read(t *testing.T, b []byte) (Message, error) {
	t.Helper()
	id, body, err := unframe(b)
	if err != nil {
		t.Fatal(err)
	}
	return readMessage(id, body)
}

// What is written by hand is what peers.proto says, and what protobuf writes by
// peers.proto is read by hand. Every field of scheduler's messages is in it.
func TestProto(t *testing.T) {
	file := parsed(t)
	for seed := range uint64(2000) {
		m := random(rand.New(rand.NewPCG(seed, 1)))
		d := dynamic(t, file, m.frame())
		known(t, d)
		again, err := proto.MarshalOptions{Deterministic: true}.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		got, err := read(t, again)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if !reflect.DeepEqual(got, m) {
			t.Fatalf("seed %d: sent %+v %+v\nread %+v %+v", seed, m.Orders, m.Report, got.Orders, got.Report)
		}
	}
}

// The words have the names that peers.proto gives their numbers.
func TestWords(t *testing.T) {
	file := parsed(t)
	check := func(enum protoreflect.Name, prefix string, n int, name func(n int) string) {
		values := file.Enums().ByName(enum).Values()
		if values.Len() != n {
			t.Errorf("%s has %d words, the mapping %d", enum, values.Len(), n)
		}
		for i := range n {
			if want := protoreflect.Name(prefix + strings.ToUpper(name(i))); values.ByNumber(protoreflect.EnumNumber(i)).Name() != want {
				t.Errorf("%s %d is %s, want %s", enum, i, values.ByNumber(protoreflect.EnumNumber(i)).Name(), want)
			}
		}
	}
	check("Verb", "VERB_", len(verbs), func(n int) string { return verbs[n].String() })
	check("Phase", "PHASE_", len(phases), func(n int) string { return phases[n].String() })
	check("Liveness", "LIVENESS_", len(livelines), func(n int) string { return []string{"alive", "stopping"}[livelines[n]] })
}

// The frames about a stream are as peers.proto has them.
func TestStreamFrames(t *testing.T) {
	file := parsed(t)
	feed := changefeed.ID{Namespace: "n", Name: "f"}
	for _, c := range []struct {
		frame []byte
		want  string
	}{
		{hello{version: 3, oldest: 2, cluster: "c", from: "a", to: "b"}.frame(), `hello:{version:3 oldest:2 cluster:"c" from:"a" to:"b"}`},
		{welcome(), `welcome:{version:2 oldest:1}`},
		{frame(framePing, nothing), `ping:{}`},
		{frame(framePong, nothing), `pong:{}`},
		{refusal{changefeed: feed, kind: kindReport, reason: "r"}.frame(), `refusal:{changefeed:{namespace:"n" name:"f"} reports:true reason:"r"}`},
	} {
		d := dynamic(t, file, c.frame)
		known(t, d)
		if got := strings.Join(strings.Fields(d.String()), " "); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
	_, body, _ := unframe(hello{version: 3, oldest: 2, cluster: "c", from: "a", to: "b"}.frame())
	if h, err := readHello(body); err != nil || h != (hello{3, 2, "c", "a", "b"}) {
		t.Error(h, err)
	}
	_, body, _ = unframe(refusal{feed, kindReport, "r"}.frame())
	if r, err := readRefusal(body); err != nil || r != (refusal{feed, kindReport, "r"}) {
		t.Error(r, err)
	}
}
