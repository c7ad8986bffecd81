package plan

import (
	"crypto/sha256"
	"encoding/hex"
)

// Identity is the same for two plans that ask for the same: the SHA-256, in hexadecimal digits, of the resolved plan
// without what a run fills in (the frozen work) and without its budget, which a resumed run may get anew.
func Identity(p *Plan) string {
	c := clone(p)
	c.Budget = 0
	for i := range c.Workloads {
		c.Workloads[i].Work = nil
	}
	sum := sha256.Sum256(Marshal(&c))
	return hex.EncodeToString(sum[:])
}

// SeedOf derives a seed from the text of a plan, so that all who read one text draw the same. It is from 1 to 2^32-1,
// as a drawn one is.
func SeedOf(src []byte) uint64 {
	sum := sha256.Sum256(src)
	var n uint64
	for _, b := range sum[:8] {
		n = n<<8 | uint64(b)
	}
	return 1 + n%(1<<32-1)
}
