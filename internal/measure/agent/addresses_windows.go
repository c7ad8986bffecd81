package agent

import (
	"fmt"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/windows"
)

// addresses lists this system's IPv4 addresses but the loopback's. Package net, which could tell as well, would make
// the agent larger.
func addresses() (found []string) {
	const skip = windows.GAA_FLAG_SKIP_ANYCAST | windows.GAA_FLAG_SKIP_MULTICAST | windows.GAA_FLAG_SKIP_DNS_SERVER
	var first *windows.IpAdapterAddresses
	size := uint32(16 << 10)
	err := error(windows.ERROR_BUFFER_OVERFLOW)
	for try := 0; err == windows.ERROR_BUFFER_OVERFLOW && try < 3; try++ {
		first = (*windows.IpAdapterAddresses)(unsafe.Pointer(unsafe.SliceData(make([]byte, size))))
		err = windows.GetAdaptersAddresses(windows.AF_INET, skip, 0, first, &size)
	}
	if err != nil {
		return nil // nothing is known
	}
	for a := first; a != nil; a = a.Next {
		for u := a.FirstUnicastAddress; u != nil && len(found) < maxPlaces; u = u.Next {
			to := u.Address.Sockaddr
			if to == nil || to.Addr.Family != windows.AF_INET {
				continue
			}
			at := netip.AddrFrom4((*windows.RawSockaddrInet4)(unsafe.Pointer(to)).Addr)
			if !at.IsLoopback() && !at.IsUnspecified() {
				found = append(found, fmt.Sprint(at))
			}
		}
	}
	return found
}
