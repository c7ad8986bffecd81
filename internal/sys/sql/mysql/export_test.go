package mysql

// Without switches off capabilities of the client.
func (c Config) Without(caps uint32) Config {
	c.without = caps
	return c
}

// DeprecateEOF is a capability for Without.
const DeprecateEOF = canDeprecateEOF
