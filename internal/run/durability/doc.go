// Package durability finds out whether a flush in an environment means anything: whether what was acknowledged to a
// program is still there after the power was lost.
//
// It is opinionated about its words. A record that was acknowledged and is gone DISPROVES a promise; nothing proves
// one. n cuts without a loss bound the rate of loss by 3/n with 95 % confidence (the rule of three), under the faults
// that were tried and down to the layer at which the plug was pulled. A test that finds no loss where flushes are known
// to be ignored has no power, and then nothing it says counts.
//
// Pull serves a virtual machine's disk itself (package nbd) and pulls its plug: what it judges is the guest's kernel
// and file system, the virtual controller and the hypervisor, but not the host's own disk. The list of what was
// acknowledged is kept by the controller, on stable storage, and closed before the plug is pulled. What a driver's
// machines need for it is an env.Plug.
package durability
