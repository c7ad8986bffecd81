//go:build !amd64

package memory

// copyBlock is memcpy of one block.
func copyBlock(dst, src []byte) { copy(dst, src) }

// moveOf tells what copyBlock takes for a block.
func moveOf(int) move { return byMemmove }
