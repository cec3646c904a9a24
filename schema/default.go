package schema

import (
	"fmt"

	"github.com/sluice-cdc/sluice/event"
)

// defaultText is the DEFAULT clause as text: a literal without quotes, a word
// such as CURRENT_TIMESTAMP, an expression, or for BIT b'…'. TIMESTAMP literals
// are in UTC (columns of version 0: in the servers' zone).
func (c *ColumnInfo) defaultText() *string {
	var s string
	switch {
	case event.Type(c.Type.Tp) == event.TypeBit && len(c.DefaultBit) > 0:
		s = fmt.Sprintf("b'%b'", bigEndian(c.DefaultBit))
	case c.Default.Set:
		s = c.Default.Text
	default:
		return nil
	}
	return &s
}

func bigEndian(b []byte) uint64 {
	var v uint64
	for _, x := range b {
		v = v<<8 | uint64(x)
	}
	return v
}
