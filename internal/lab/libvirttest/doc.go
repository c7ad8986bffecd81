// Package libvirttest starts a real libvirtd for tests, in namespaces of its own and with its files below a temporary
// folder. It does not touch the machine's own libvirt. One signal ends it with all its machines and networks, even if
// the test binary is killed.
package libvirttest
