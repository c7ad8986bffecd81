package env

import "context"

// Plug is what one has to know of a machine to serve its disk (Options.Scratch) and to cut its power.
type Plug struct {
	// Shown is what decides there what a flush is worth, as settings: "cache=none".
	Shown string
	// Ignored are settings with which the same machine ignores its guest's flushes, and Passed other ones with which it
	// passes them on. They check the test.
	Ignored, Passed map[string]string
	// Header returns what stands in the disk's file before the guest's blocks, if these take so many bytes.
	Header func(size int64) []byte
	// Label is that of the ext4 on the disk, if the agent must be told to mount it at guestabi.Scratch; "" if the
	// machine mounts it as it boots.
	Label string
	// PowerOff has the product switch a machine off by its own means, and returns when its process has ended. It is nil
	// if that is not offered.
	PowerOff func(ctx context.Context, e Env) error
}
