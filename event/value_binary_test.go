package event_test

import (
	"testing"

	"github.com/sluice-cdc/sluice/event"
)

// A value comes out of its bytes as it went in, and keeps none of them.
func TestValueBinary(t *testing.T) {
	for _, v := range []event.Value{
		{}, event.NullValue(), event.IntValue(-7), event.UintValue(1 << 63), event.FloatValue(-0.5),
		event.BytesValue([]byte("a\x00\xff")), event.EnumValue(2), event.JSONValue([]byte{1, 2}), event.VectorValue([]byte{0, 0, 0, 0}),
	} {
		b, err := v.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		var got event.Value
		if err := got.UnmarshalBinary(b); err != nil {
			t.Fatal(err)
		}
		clear(b)
		if !got.Equal(v) {
			t.Errorf("%v became %v", v, got)
		}
	}
	var v event.Value
	for _, bad := range [][]byte{nil, {1, 2}, {200, 0, 0, 0, 0, 0, 0, 0, 0}} {
		if v.UnmarshalBinary(bad) == nil {
			t.Errorf("%v was taken for a value", bad)
		}
	}
}
