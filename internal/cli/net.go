package cli

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"strings"

	"github.com/spf13/cobra"

	"tare/internal/measure/netpeer"
	"tare/internal/sys/iperf3"
	"tare/internal/sys/iperf3/serve"
)

// netCommand is `tare net`.
type netCommand struct {
	*app
}

func (cmd *netCommand) command() *cobra.Command {
	root := &cobra.Command{Use: "net", Short: "The other end of a measurement of the network"}
	root.AddCommand(cmd.serveCommand())
	return root
}

func (cmd *netCommand) serveCommand() *cobra.Command {
	listen, once := "", false
	c := &cobra.Command{
		Use: "serve", Short: "Serve stock iperf3 clients, as iperf3 -s does",
		Long: `Serve tests of stock iperf3 clients over TCP and UDP, one at a time, until Ctrl-C: forward, -R, --bidir, -P,
-u.

It listens on this machine's loopback unless --listen names another of its addresses. Then everybody who reaches that
address can have this machine send and receive as fast as it can: iperf3 has no password here.

    tare net serve --listen 192.0.2.7          a device measures its way to here: iperf3 -c 192.0.2.7
    tare run -e host -w net.stream:server=192.0.2.8        the other way round: that device runs iperf3 -s`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return cmd.serve(c.Context(), listen, once) },
	}
	f := c.Flags()
	f.StringVar(&listen, "listen", "127.0.0.1", "numeric `address` of this machine, with a port unless it is 5201; "+
		"port 0 takes a free one")
	f.BoolVar(&once, "once", false, "end after one test; the exit code says whether it came to its end")
	return c
}

// parseListen reads an address whose port may be missing.
func parseListen(text string) (netip.AddrPort, error) {
	if ip, err := netip.ParseAddr(strings.Trim(text, "[]")); err == nil {
		return netip.AddrPortFrom(ip, iperf3.Port), nil
	}
	at, err := netip.ParseAddrPort(text)
	if err != nil {
		return at, usagef("--listen %s is not a numeric address, such as 127.0.0.1 or 192.0.2.7:5201",
			printableLine(text))
	}
	return at, nil
}

func (cmd *netCommand) serve(ctx context.Context, listen string, once bool) error {
	at, err := parseListen(listen)
	if err != nil {
		return err
	}
	s, err := serve.Listen(at)
	if err != nil {
		return fmt.Errorf("listen for iperf3 clients: %w; choose another address of this machine or another port with "+
			"--listen", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var last error
	s.CPU = netpeer.CPUTime
	s.Told = func(r serve.Report) {
		tellServed(cmd.out, &r)
		if once {
			last = r.Err
			cancel()
		}
	}
	who := "only this machine reaches it"
	if !at.Addr().IsLoopback() {
		who = "everybody who reaches this address can use it"
	}
	fmt.Fprintf(cmd.out, "serving iperf3 clients at %s; %s; Ctrl-C ends it\n", s.Address(), who)
	if err := s.Serve(ctx); err != nil {
		return fmt.Errorf("serve iperf3 clients: %w", err)
	}
	return last
}

// tellServed writes the outcome of a test.
func tellServed(w io.Writer, r *serve.Report) {
	if r.Sending+r.Receiving == 0 && r.Err != nil {
		fmt.Fprintf(w, "%s: no test: %v\n", r.Client, r.Err)
		return
	}
	protocol := "TCP"
	if r.UDP {
		protocol = "UDP"
	}
	fmt.Fprintf(w, "%s: %s, %.1f s", r.Client, protocol, r.Elapsed.Seconds())
	for _, way := range []struct {
		what    string
		streams int
		bytes   int64
	}{{"received", r.Receiving, r.Received}, {"sent", r.Sending, r.Sent}} {
		if way.streams > 0 {
			fmt.Fprintf(w, ", %s %.1f MiB at %.1f Mbit/s (streams: %d)", way.what, float64(way.bytes)/(1<<20),
				float64(way.bytes)*8/1e6/max(r.Elapsed.Seconds(), 1e-6), way.streams)
		}
	}
	if r.UDP && r.Receiving > 0 {
		fmt.Fprintf(w, ", lost %d of %d datagrams", r.Lost, r.Packets)
	}
	if r.Err != nil {
		fmt.Fprintf(w, "; it did not come to its end: %v", r.Err)
	}
	fmt.Fprintln(w)
}
