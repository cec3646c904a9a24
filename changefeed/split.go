package changefeed

import (
	"github.com/sluice-cdc/sluice/cdcerr"
)

// OneKeyOnly tells whether, of large tables, only those are cut of which nothing but the
// row's key is unique: rows of others may have to be written in their order, which pieces
// do not have among each other. In a database that is always so.
func (i *Info) OneKeyOnly() bool {
	kind, _, err := kindOf(i.SinkURI)
	check := i.Config.Scheduler.EnableSplittableCheck
	return err != nil || kind == kindMySQL || check != nil && *check && !i.Config.Scheduler.ForceSplit
}

// checkSplit refuses to cut tables whose transactions are to stay whole.
func (c *Config) checkSplit(handed URI) error {
	_, parsed, err := kindOf(handed)
	if err != nil || !c.Scheduler.EnableTableAcrossNodes {
		return err
	}
	atomicity := c.Sink.TransactionAtomicity
	if q := parsed.Query(); q.Has("transaction-atomicity") {
		atomicity = q.Get("transaction-atomicity")
	}
	if atomicity != "table" {
		return nil
	}
	return cdcerr.ConfigInvalid.New("scheduler.enable-table-across-nodes = true and transaction-atomicity = \"table\": the pieces of a table are written by several captures, and so are parts of one transaction: want \"none\", or tables that are not cut")
}
