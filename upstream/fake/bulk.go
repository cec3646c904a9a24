package fake

// Bulk.
type Bulk struct{}

func (b *Bulk) validate() error { return nil }
func (c *Cluster) loadBulk()    {}
