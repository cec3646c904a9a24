package encode

// Sorter gives strings the bytes by which their collation orders them: what
// stands in keys.
type Sorter interface {
	SortKey(collation string, s []byte) ([]byte, error)
}

// Plain is the order of clusters that were set up without the new collations:
// every string by its own bytes.
type Plain struct{}

// SortKey is s itself.
func (Plain) SortKey(_ string, s []byte) ([]byte, error) { return s, nil }
