package transport

import (
	"bytes"
	"context"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/changefeed"
	"github.com/sluice-cdc/sluice/scheduler"
	"github.com/sluice-cdc/sluice/span"
)

var rewrite = flag.Bool("rewrite-golden", false, "write testdata/frames.txt from what the code gives")

// everyFrame is one of each, in which everything is said.
func everyFrame() []struct {
	name  string
	bytes []byte
} {
	id := changefeed.ID{Namespace: "n", Name: "f"}
	head := scheduler.Head{Owner: 1, Epoch: 2, Capture: "c", Incarnation: 3, Term: 4, Seq: 5}
	s := span.Span{TableID: 6, Start: span.Key("s"), End: span.Key("t")}
	orders := Message{Changefeed: id, Orders: &scheduler.Orders{
		Head: head, Ack: 7, Barrier: scheduler.Barrier{Known: true, Passed: 8, Sync: 9, Tables: []scheduler.Passed{{Table: 10, TS: 11}}, Gate: 12},
		Orders: []scheduler.Order{{Verb: scheduler.Write, Span: s, From: 13, Grant: 14}},
	}}
	report := Message{Changefeed: id, Report: &scheduler.Report{
		Head: head, Upto: 7, Complete: true, Writes: 8, Floor: scheduler.Progress{Checkpoint: 9, Resolved: 10}, Liveness: capture.Stopping,
		Statuses: []scheduler.Status{{Change: 11, Span: s, Phase: scheduler.Writing, Checkpoint: 12, Resolved: 13, Grant: 14, Regions: 15, Traffic: 16}},
		Fault:    "f", Rows: 17, Written: 18, Warning: "w", Extents: []byte("e"), Deaf: true,
	}}
	return []struct {
		name  string
		bytes []byte
	}{
		{"hello", hello{version: version, oldest: oldestVersion, cluster: "c", from: "a", to: "b"}.frame()},
		{"welcome", welcome()},
		{"ping", frame(framePing, nothing)},
		{"pong", frame(framePong, nothing)},
		{"refusal", refusal{id, kindReport, "r"}.frame()},
		{"orders", orders.frame()},
		{"report", report.frame()},
	}
}

// unsaid are the fields of a message, and of all within, that are not there.
func unsaid(m protoreflect.Message) (out []string) {
	for i := range m.Descriptor().Fields().Len() {
		f := m.Descriptor().Fields().Get(i)
		if !m.Has(f) {
			out = append(out, string(f.FullName()))
			continue
		}
		switch {
		case f.Kind() == protoreflect.MessageKind && f.IsList():
			out = append(out, unsaid(m.Get(f).List().Get(0).Message())...)
		case f.Kind() == protoreflect.MessageKind:
			out = append(out, unsaid(m.Get(f).Message())...)
		}
	}
	return out
}

// The bytes of every frame are what the release before writes and reads. A change of them
// is a new version of the protocol, or it is a mistake.
func TestFramesGolden(t *testing.T) {
	file := parsed(t)
	var text bytes.Buffer
	fmt.Fprintf(&text, "version %d, oldest %d\n", version, oldestVersion)
	for _, f := range everyFrame() {
		fmt.Fprintf(&text, "%s %s\n", f.name, hex.EncodeToString(f.bytes))
		d := dynamic(t, file, f.bytes)
		known(t, d)
		if missing := unsaid(part(d, protoreflect.Name(f.name))); len(missing) > 0 {
			t.Errorf("the golden %s says nothing of %s", f.name, strings.Join(missing, ", "))
		}
	}
	const golden = "testdata/frames.txt"
	if *rewrite {
		must(t, os.WriteFile(golden, text.Bytes(), 0o644))
	}
	want, err := os.ReadFile(golden)
	must(t, err)
	if text.String() != string(want) {
		t.Errorf("%s is not what the code gives (-rewrite-golden writes it); now\n%s", golden, text.String())
	}
}

// Every frame of the next version, with a field more in each message, reads as what is
// known of it.
func TestEveryFrameOfALaterVersion(t *testing.T) {
	later := laterVersion(t)
	for _, f := range everyFrame() {
		d := dynamic(t, later, f.bytes)
		garnish(part(d, protoreflect.Name(f.name)))
		b, err := proto.Marshal(d)
		must(t, err)
		if bytes.Equal(b, f.bytes) {
			t.Fatalf("%s has nothing of the later version", f.name)
		}
		id, body, err := unframe(b)
		must(t, err)
		_, plain, _ := unframe(f.bytes)
		var got, want any
		switch f.name {
		case "hello":
			got, err = readHello(body)
			want, _ = readHello(plain)
		case "welcome":
			got, err = readHello(body)
			want, _ = readHello(plain)
		case "refusal":
			got, err = readRefusal(body)
			want, _ = readRefusal(plain)
		case "orders", "report":
			m, bad := readMessage(id, body)
			m.Unknown = nil
			got, err = m, bad
			want, _ = readMessage(id, plain)
		}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v, want %+v", f.name, got, err, want)
		}
	}
}

// greet opens a stream as a capture of another release does.
func greet(t *testing.T, address string, h hello) (grpc.ClientStream, error) {
	t.Helper()
	cfg := quick(h.from, nil)
	a, err := New(cfg)
	must(t, err)
	conn, end, err := a.dial(address)
	must(t, err)
	t.Cleanup(end)
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	stream, err := conn.NewStream(ctx, &streamDesc, streamMethod)
	must(t, err)
	must(t, stream.SendMsg(h.frame()))
	id, _, err := receive(stream)
	if err == nil && id != frameWelcome {
		t.Fatalf("frame %d answers a hello", id)
	}
	return stream, err
}

// Captures of the release before and of the next one are heard; of one by two later, and of
// one that is too old, a stream is refused with what is to be done.
func TestVersionsOverStreams(t *testing.T) {
	port := serve(t, listen(t))
	_, got := taking(t, quick("b", port))
	for seq, c := range []struct {
		from            capture.ID
		version, oldest uint64
		refused         string
	}{
		{"older", version - 1, version - 2, ""},
		{"same", version, oldestVersion, ""},
		{"newer", version + 1, version, ""},
		{"newest", version + 2, version + 1, "the peer speaks versions 3 to 4 of the protocol between captures, this capture 1 to 2: upgrade through the versions between"},
		{"oldest", oldestVersion - 1, oldestVersion - 1, "the peer speaks versions 0 to 0 of the protocol between captures, this capture 1 to 2: upgrade through the versions between"},
	} {
		stream, err := greet(t, port.address, hello{c.version, c.oldest, "default", c.from, "b"})
		if c.refused != "" {
			if status.Code(err) != codes.FailedPrecondition || status.Convert(err).Message() != c.refused {
				t.Errorf("%s: %v", c.from, err)
			}
			continue
		}
		must(t, err)
		m := orders("b", uint64(seq+1))
		must(t, stream.SendMsg(m.frame()))
		if all := next(t, got); len(all) != 1 || all[0].From != c.from || all[0].Message.Orders.Seq != uint64(seq+1) {
			t.Errorf("%s: %+v", c.from, all)
		}
	}
}

// A message of version 1 has none of what came with version 2, and its zero is what was the
// case before: no gate, and nothing told of rows.
func TestOlderMessage(t *testing.T) {
	older := parsed(t, "  fixed64 gate = 5;\n", "", "  uint64 rows = 10;\n", "", "  fixed64 written = 11;\n", "", "  string warning = 12;\n", "", "  bytes extents = 13;\n", "", "  bool deaf = 14;\n", "")
	for _, f := range everyFrame()[5:] {
		d := dynamicpb.NewMessage(older.Messages().ByName("Frame"))
		must(t, proto.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(f.bytes, d)) // as that release reads it
		b, err := proto.Marshal(d)
		must(t, err)
		m, err := read(t, b)
		must(t, err)
		whole, err := read(t, f.bytes)
		must(t, err)
		if whole.Orders != nil {
			whole.Orders.Barrier.Gate = 0
		} else {
			r := whole.Report
			r.Rows, r.Written, r.Warning, r.Extents, r.Deaf = 0, 0, "", nil, false
		}
		if !reflect.DeepEqual(m, whole) {
			t.Errorf("%s: %+v, want %+v", f.name, m, whole)
		}
	}
}
