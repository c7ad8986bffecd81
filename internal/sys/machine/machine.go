// Package machine tells one machine from another, and says of the machine it runs on what only a process on its kernel
// can tell: microcode, firmware, memory modules.
package machine

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net"
	"os"
	"slices"
	"strings"
)

// identityKey makes the digest one that no other program computes of the same machine id (machine-id(5) asks for that).
const identityKey = "tare machine 1"

// Identity returns 32 hexadecimal digits that are the same as long as the machine is: whatever it is called, whoever
// asks, and whichever boot it is. They are made of the system's machine id and the addresses of network cards that
// are built in, and do not reveal either. It is weak where the system has neither: then only the host's name tells
// machines apart, and clones of one image in containers may pass for one machine. "" where not even a name is known.
func Identity() (id string, weak bool) {
	parts := []string{}
	if s := systemID(); s != "" {
		parts = append(parts, "id "+s)
	}
	for _, a := range cards() {
		parts = append(parts, "card "+a)
	}
	if len(parts) == 0 {
		weak = true
		name, err := os.Hostname()
		if err != nil || name == "" {
			return "", true
		}
		name, _, _ = strings.Cut(strings.ToLower(name), ".")
		parts = append(parts, "name "+name)
	}
	return digest(parts), weak
}

func digest(parts []string) string {
	h := hmac.New(sha256.New, []byte(identityKey))
	h.Write([]byte(strings.Join(parts, "\n")))
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// cards are the hardware addresses of the network cards that belong to the machine, in their order. Those that software
// makes up are another each time.
func cards() []string {
	all, err := net.Interfaces()
	if err != nil {
		return nil
	}
	var out []string
	for _, i := range all {
		// The second bit of the first byte marks an address that no maker of cards has given.
		if len(i.HardwareAddr) == 6 && i.HardwareAddr[0]&2 == 0 && builtIn(i.Name) {
			out = append(out, i.HardwareAddr.String())
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
