package tso

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

const logicalBits = 18

// Max is later than every timestamp that PD hands out.
const Max TS = math.MaxUint64

// TS is a PD timestamp: milliseconds << 18 | logical. Zero means "none".
type TS uint64

// New builds a TS from Unix milliseconds and a logical counter below 1<<18.
func New(physicalMS, logical int64) TS {
	return TS(uint64(physicalMS)<<logicalBits | uint64(logical)&(1<<logicalBits-1))
}

// At is the first TS of the millisecond in which t falls.
func At(t time.Time) TS { return New(t.UnixMilli(), 0) }

// Parse reads a TS in decimal.
func Parse(s string) (TS, error) {
	v, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("tso %q: want a decimal timestamp as PD gives it: %w", s, err)
	}
	return TS(v), nil
}

// Physical is the wall clock part in Unix milliseconds.
func (t TS) Physical() int64 { return int64(t >> logicalBits) }

// Logical is the counter within the millisecond.
func (t TS) Logical() int64 { return int64(t & (1<<logicalBits - 1)) }

// Time is the wall clock part in UTC.
func (t TS) Time() time.Time { return time.UnixMilli(t.Physical()).UTC() }

// Prev is the timestamp just before t; Prev of zero is zero.
func (t TS) Prev() TS {
	if t == 0 {
		return 0
	}
	return t - 1
}

// Next is the timestamp just after t; Next of Max is Max.
func (t TS) Next() TS {
	if t == Max {
		return Max
	}
	return t + 1
}

// Sub is the wall clock distance t − u.
func (t TS) Sub(u TS) time.Duration {
	return time.Duration(t.Physical()-u.Physical()) * time.Millisecond
}

// String is the decimal form that TiDB and TiCDC print.
func (t TS) String() string { return strconv.FormatUint(uint64(t), 10) }

// Stage names the place where a timestamp moved.
type Stage string

// The stages whose timestamps are on record.
const (
	StageRegion     Stage = "region resolved-ts"
	StageSpan       Stage = "span resolved-ts"
	StageSchema     Stage = "schema resolved-ts"
	StageGlobal     Stage = "changefeed resolved-ts"
	StageBarrier    Stage = "changefeed barrier-ts"
	StageCheckpoint Stage = "changefeed checkpoint-ts"
	StageGC         Stage = "service GC safepoint"
)

// Move is one step of one timestamp. TableID and Region name its subject where
// it has one. Cause is a constant phrase, never built per move.
type Move struct {
	Stage   Stage
	TableID int64
	Region  uint64
	From    TS
	To      TS
	Cause   string
}

// String is one line of a history.
func (m Move) String() string {
	return fmt.Sprintf("%s table=%d region=%d %d -> %d (%s)", m.Stage, m.TableID, m.Region, m.From, m.To, m.Cause)
}
