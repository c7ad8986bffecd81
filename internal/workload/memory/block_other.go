//go:build !amd64

package memory

// copyBlock is memcpy of one block.
func copyBlock(dst, src []byte) { copy(dst, src) }

// byVectors tells whether copyBlock takes vector registers.
func byVectors(int) bool { return false }
