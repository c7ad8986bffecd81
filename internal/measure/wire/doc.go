// Package wire is the protocol between the controller and an agent, and between an agent and its worker.
//
// The agent speaks first: eight bytes of magic that no shell prints, then frames. A frame is a header of ten bytes
// (length u32, type u8, flags u8, trial u32, big endian) and a payload of at most 4 MiB: JSON for control, packed
// binary for samples. Whatever precedes the magic is noise of the environment (a login banner, a boot message); up to
// 64 KiB of it are skipped and kept as evidence.
//
// One request is in flight at a time. A trial goes
//
//	C Run -> A -> W        set up, collect garbage
//	C <- A <- W Begin      stamped on arrival; A hands Begin back to W, and only then does W start the clock
//	                       nothing travels while Measure runs
//	C <- A <- W End        stamped on arrival
//	C <- A <- W Samples*   report and clean up
//	C <- A <- W Result     sent on when W is gone
package wire
