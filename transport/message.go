package transport

import (
	"github.com/sluice-cdc/sluice/capture"
	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/changefeed"
	"github.com/sluice-cdc/sluice/scheduler"
)

// Message is one of scheduler's messages, of one changefeed. Whoever sent it or took
// it changes nothing in it.
type Message struct {
	Changefeed changefeed.ID
	Orders     *scheduler.Orders // one of these two
	Report     *scheduler.Report
	// Unknown are the fields that a later version has added to it, as they came. They
	// are kept where it is sent on.
	Unknown []byte
}

// Received is what an Inbox holds: a message, or that a peer cannot be reached.
type Received struct {
	From    capture.ID
	Message Message
	// Broken tells that the stream to or from the peer broke, or that it could not be
	// dialled. There is no message then. Only inboxes of reports get it: it is
	// scheduler.Owner.Broken's to know.
	Broken bool
}

// kind is which half of a changefeed a message is for.
type kind uint8

const (
	kindOrders kind = iota
	kindReport
	kindBroken // only in an Inbox
)

func (k kind) String() string { return [...]string{"orders", "report", "broken"}[k] }

func (m *Message) kind() kind {
	if m.Report != nil {
		return kindReport
	}
	return kindOrders
}

func (m *Message) head() scheduler.Head {
	if m.Report != nil {
		return m.Report.Head
	}
	return m.Orders.Head
}

// check tells whether from may say this to `to`: orders name whom they are for, and a
// capture reports for itself only.
func (m *Message) check(from, to capture.ID) error {
	if (m.Orders == nil) == (m.Report == nil) {
		return cdcerr.Bug("a message of changefeed %s has to be orders or a report, and one of them", m.Changefeed)
	}
	want := to
	if m.Report != nil {
		want = from
	}
	if id := m.head().Capture; id != want {
		return cdcerr.Bug("%s from capture %s to %s name capture %s", m.kind(), from, to, id)
	}
	return nil
}
