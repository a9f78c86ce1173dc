package sendonce

// IdleAlive counts the idle connections that are still usable.
func (c *Client) IdleAlive() int {
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	n := 0
	for _, list := range c.pool.idle {
		for _, cn := range list {
			if cn.Err() == nil {
				n++
			}
		}
	}
	return n
}
