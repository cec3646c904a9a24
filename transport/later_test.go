package transport

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
)

// laterVersion is peers.proto as a later version may have it: a field more in every
// message, a frame more.
func laterVersion(t *testing.T) protoreflect.FileDescriptor {
	return parsed(t,
		"    Report report = 7;", "    Report report = 7;\n    Ping later = 8;",
		"message Head {", "message Later { string text = 1; }\nmessage Head {\n  Later later = 100;",
		"message Orders {", "message Orders {\n  Later later = 100;\n  repeated fixed32 numbers = 101;",
		"message Report {", "message Report {\n  Later later = 100;\n  repeated fixed32 numbers = 101;",
		"message Barrier {", "message Barrier {\n  Later later = 100;",
		"message Order {", "message Order {\n  Later later = 100;",
		"message Span {", "message Span {\n  fixed64 later = 100;",
		"message Status {", "message Status {\n  sint64 later = 100;",
		"message Hello {", "message Hello {\n  Later later = 100;",
		"message Welcome {", "message Welcome {\n  Later later = 100;",
		"message Ping {}", "message Ping { Later later = 100; }",
		"message Pong {}", "message Pong { Later later = 100; }",
		"message Refusal {", "message Refusal {\n  Later later = 100;",
		"message Changefeed {", "message Changefeed {\n  Later later = 100;",
		"message Passed {", "message Passed {\n  sint64 later = 100;",
		"message Progress {", "message Progress {\n  fixed64 later = 100;",
		"VERB_STOP = 3;", "VERB_STOP = 3;\n  VERB_LATER = 4;",
		"PHASE_STOPPED = 5;", "PHASE_STOPPED = 5;\n  PHASE_LATER = 6;",
	)
}

// garnish sets the fields of the later version, in a message and all within.
func garnish(m protoreflect.Message) {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.Kind() == protoreflect.MessageKind && f.IsList():
			for i := range v.List().Len() {
				garnish(v.List().Get(i).Message())
			}
		case f.Kind() == protoreflect.MessageKind:
			garnish(v.Message())
		}
		return true
	})
	fields := m.Descriptor().Fields()
	switch f := fields.ByName("later"); {
	case f == nil || f.ContainingOneof() != nil:
	case f.Kind() == protoreflect.MessageKind:
		l := m.Mutable(f).Message()
		l.Set(l.Descriptor().Fields().ByName("text"), protoreflect.ValueOfString("said later"))
	case f.Kind() == protoreflect.Fixed64Kind:
		m.Set(f, protoreflect.ValueOfUint64(7))
	default:
		m.Set(f, protoreflect.ValueOfInt64(-7))
	}
	if f := fields.ByName("numbers"); f != nil {
		m.Mutable(f).List().Append(protoreflect.ValueOfUint32(5))
	}
}

// A message of the next version reads as what this version knows of it; what the
// later version added to the message is kept, and is there again where it is sent on.
func TestLaterVersionIsRead(t *testing.T) {
	later := laterVersion(t)
	for seed := range uint64(500) {
		m := random(rand.New(rand.NewPCG(seed, 2)))
		d := dynamic(t, later, m.frame())
		garnish(d)
		b, err := proto.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		got, err := read(t, b)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		sent := got
		got.Unknown = nil
		if !reflect.DeepEqual(got, m) {
			t.Fatalf("seed %d: sent %+v\nread %+v", seed, m, got)
		}
		body := part(dynamic(t, later, sent.frame()), m.kind().frame())
		if text := part(body, "later"); !text.IsValid() || text.Get(text.Descriptor().Fields().ByName("text")).String() != "said later" {
			t.Fatalf("seed %d: not kept: %v", seed, body)
		}
		if n := body.Get(body.Descriptor().Fields().ByName("numbers")).List(); n.Len() != 1 || n.Get(0).Uint() != 5 {
			t.Fatalf("seed %d: not kept: %v", seed, body)
		}
	}
}

func (k kind) frame() protoreflect.Name {
	if k == kindReport {
		return "report"
	}
	return "orders"
}

func part(m protoreflect.Message, name protoreflect.Name) protoreflect.Message {
	return m.Get(m.Descriptor().Fields().ByName(name)).Message()
}

// A frame of the next version is passed over; a message with a verb or a phase of it
// is dropped whole.
func TestLaterWords(t *testing.T) {
	later := laterVersion(t)
	d := dynamicpb.NewMessage(later.Messages().ByName("Frame"))
	d.Mutable(d.Descriptor().Fields().ByName("later"))
	b, err := proto.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	if id, _, err := unframe(b); id != 0 || err != nil {
		t.Errorf("frame %d, %v", id, err)
	}
	for _, c := range []struct{ frame, list, word protoreflect.Name }{{"orders", "orders", "verb"}, {"report", "statuses", "phase"}} {
		d := dynamicpb.NewMessage(later.Messages().ByName("Frame"))
		body := d.Mutable(d.Descriptor().Fields().ByName(c.frame)).Message()
		x := body.Mutable(body.Descriptor().Fields().ByName(c.list)).List().AppendMutable().Message()
		f := x.Descriptor().Fields().ByName(c.word)
		x.Set(f, protoreflect.ValueOfEnum(protoreflect.EnumNumber(f.Enum().Values().Len()-1)))
		b, err := proto.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := read(t, b); !errors.Is(err, errStrange) {
			t.Errorf("%s of a later version: %v", c.word, err)
		}
	}
}

// Whatever comes, reading ends, with a message or an error.
func FuzzRead(f *testing.F) {
	for seed := range uint64(20) {
		m := random(rand.New(rand.NewPCG(seed, 3)))
		f.Add(m.frame())
	}
	f.Add(hello{version: 1, from: "a"}.frame())
	f.Add(protowire.AppendTag(nil, 6, protowire.StartGroupType))
	f.Fuzz(func(t *testing.T, b []byte) {
		id, body, err := unframe(b)
		if err != nil {
			return
		}
		switch id {
		case frameOrders, frameReport:
			m, err := readMessage(id, body)
			if err != nil {
				return
			}
			again, err := read(t, m.frame())
			if err != nil || !reflect.DeepEqual(again.Report, m.Report) || !reflect.DeepEqual(again.Orders, m.Orders) {
				t.Errorf("%+v\n%+v %v", m, again, err)
			}
		case frameHello, frameWelcome:
			_, _ = readHello(body)
		case frameRefusal:
			_, _ = readRefusal(body)
		}
	})
}
