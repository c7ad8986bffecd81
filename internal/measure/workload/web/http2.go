package web

import (
	"errors"
	"fmt"

	"tare/internal/measure/workload"
)

// The versions of HTTP that http.load speaks.
const (
	version1 = "1.1"
	version2 = "2"
)

// Bounds of streams.
const (
	maxStreams = 1000
	maxPlaces  = 1 << 17 // of all connections
)

func httpParam() workload.Param {
	return workload.Param{Name: "http", Type: workload.Choice, Default: version1, Choices: []string{version1, version2},
		Doc: "HTTP's version; 2 needs a server that agrees to it (ALPN) or, without " +
			"TLS, knows it beforehand (h2c)"}
}

func streamsParam() workload.Param {
	return workload.Param{Name: "streams", Type: workload.Int, Default: "1", Min: 1, Max: maxStreams,
		Doc: "with http=2, requests at the same time on each connection"}
}

// checkStreams refuses what HTTP/1.1 does not have, and what no machine has room for.
func checkStreams(p workload.Params) error {
	many := p.Int("streams") > 1
	switch {
	case many && p["http"] != version2:
		return fmt.Errorf("streams=%s is only for http=2: HTTP/1.1 has one request at a time on a connection",
			p["streams"])
	case many && !p.Bool("keepalive"):
		return errors.New("keepalive=no opens a connection for each request, and streams= asks for several on each: " +
			"use one of them")
	case p.Int("connections")*p.Int("streams") > maxPlaces:
		return fmt.Errorf("connections=%s with streams=%s are more than %d requests at the same time", p["connections"],
			p["streams"], maxPlaces)
	}
	return nil
}
