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

// Registrations is how many registrations the stores have ever taken.
func (c *Cluster) Registrations() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.registered
}
