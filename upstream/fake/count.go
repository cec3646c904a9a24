package fake

// Subscriptions is how many registrations of regions live on the streams, over
// all subscribers.
func (c *Cluster) Subscriptions() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, subs := range c.byRegion {
		n += len(subs)
	}
	return n
}
