package namespace

import (
	"os"
	"testing"

	"tare/internal/lab/envtest"
	"tare/internal/sys/proc"
)

// TestWebServing uses the host's nginx, over the container's loopback only, as root and as root of a user namespace.
func TestWebServing(t *testing.T) {
	if _, err := proc.LookPath("nginx"); err != nil {
		if os.Getenv("TARE_REQUIRE") != "" {
			t.Fatal("nginx is not installed, and TARE_REQUIRE is set")
		}
		t.Skip("nginx is not installed")
	}
	for _, user := range []string{"auto", "own"} {
		o := options(t, spec("user", user))
		_, s := envtest.Open(t, Driver{}, o)
		t.Run("user="+user, func(t *testing.T) { envtest.Pages(t, s, 200, 2) })
	}
}
