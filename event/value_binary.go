package event

import (
	"encoding/binary"
	"fmt"
)

// valueHead is a Value's kind and number; its bytes follow.
const valueHead = 1 + 8

// MarshalBinary is the value as it stands, for who keeps events or sends them to
// another process. It is no format: both sides are of one build.
func (v Value) MarshalBinary() ([]byte, error) {
	out := make([]byte, valueHead, valueHead+len(v.raw))
	out[0] = byte(v.kind)
	binary.LittleEndian.PutUint64(out[1:], v.num)
	return append(out, v.raw...), nil
}

// UnmarshalBinary reads what MarshalBinary wrote; it keeps no part of b.
func (v *Value) UnmarshalBinary(b []byte) error {
	if len(b) < valueHead || ValueKind(b[0]) > Vector {
		return fmt.Errorf("%d bytes are no value", len(b))
	}
	*v = Value{kind: ValueKind(b[0]), num: binary.LittleEndian.Uint64(b[1:])}
	if len(b) > valueHead {
		v.raw = append([]byte(nil), b[valueHead:]...)
	}
	return nil
}
