package command

import (
	"errors"
	"fmt"
	"strconv"

	"tare/internal/sys/benchfmt"
	"tare/internal/unit"
)

// fio reads `fio --output-format=json`. Figures are sums over the jobs; percentiles cannot be summed, so the worst
// job's is taken.
func fio() program {
	p := program{name: "fio", parse: parseFIO}
	p.figures = append(p.figures,
		higher("fio_iops", "ops/s", "reads and writes per second, all jobs"),
		higher("fio_mib_per_second", "MiB/s", "bytes read and written per second, all jobs, in units of 1,048,576"))
	for _, d := range []string{"read", "write"} {
		p.figures = append(p.figures,
			higher("fio_"+d+"_iops", "ops/s", d+"s per second, all jobs"),
			higher("fio_"+d+"_mib_per_second", "MiB/s", "bytes per second of "+d+"s, all jobs, in units of 1,048,576"),
			lower("fio_"+d+"_latency_ns", "ns", "mean latency of a "+d+", from submission to completion"),
			tailOf(lower("fio_"+d+"_p99_ns", "ns",
				"99th percentile of completion latency of "+d+"s, of the worst job")))
	}
	return p
}

type fioOutput struct {
	Jobs []struct {
		Error int     `json:"error"`
		Name  string  `json:"jobname"`
		Read  fioSide `json:"read"`
		Write fioSide `json:"write"`
	} `json:"jobs"`
}

type fioSide struct {
	IOs   float64 `json:"total_ios"`
	IOPS  float64 `json:"iops"`
	Bytes float64 `json:"bw_bytes"`
	Lat   struct {
		Mean float64 `json:"mean"`
	} `json:"lat_ns"`
	Clat struct {
		Percentile map[string]float64 `json:"percentile"`
	} `json:"clat_ns"`
}

func parseFIO(out []byte) (*found, error) {
	var doc fioOutput
	if err := benchfmt.JSON(out, &doc); err != nil {
		return nil, fmt.Errorf("%w; run fio with --output-format=json", err)
	}
	if len(doc.Jobs) == 0 {
		return nil, errors.New("fio's output has no jobs")
	}
	sides := map[string][]fioSide{}
	for _, j := range doc.Jobs {
		if j.Error != 0 {
			return nil, fmt.Errorf("fio's job %q ended with error %d", j.Name, j.Error)
		}
		sides["read"], sides["write"] = append(sides["read"], j.Read), append(sides["write"], j.Write)
	}
	f := newFound()
	var iops, bytes float64
	for d, jobs := range sides {
		var ios, lat, worst, dIOPS, dBytes float64
		for _, s := range jobs {
			ios, lat = ios+s.IOs, lat+s.IOs*s.Lat.Mean
			dIOPS, dBytes = dIOPS+s.IOPS, dBytes+s.Bytes
			worst = max(worst, s.Clat.Percentile["99.000000"])
		}
		iops, bytes = iops+dIOPS, bytes+dBytes
		f.set("fio_"+d+"_iops", dIOPS)
		f.set("fio_"+d+"_mib_per_second", dBytes/(1<<20))
		if ios > 0 {
			f.set("fio_"+d+"_latency_ns", lat/ios)
		}
		f.set("fio_"+d+"_p99_ns", worst)
	}
	if !(iops > 0) {
		return nil, errors.New("fio neither read nor wrote anything")
	}
	f.set("fio_iops", iops)
	f.set("fio_mib_per_second", bytes/(1<<20))
	return f, nil
}

// iperf3 reads `iperf3 -c HOST -J`.
func iperf3() program {
	return program{name: "iperf3", parse: parseIperf3, figures: []unit.Metric{
		higher("iperf3_bits_per_second", "bit/s", "bits received per second, all streams"),
		lower("iperf3_jitter_ms", "ms", "jitter of UDP packets at the receiver"),
	}}
}

type iperfSum struct {
	Bits        float64 `json:"bits_per_second"`
	Bytes       float64 `json:"bytes"`
	Jitter      float64 `json:"jitter_ms"`
	LostPercent float64 `json:"lost_percent"`
	Retransmits float64 `json:"retransmits"`
}

func parseIperf3(out []byte) (*found, error) {
	var doc struct {
		Error string `json:"error"`
		End   struct {
			Sum      *iperfSum `json:"sum"`
			Sent     *iperfSum `json:"sum_sent"`
			Received *iperfSum `json:"sum_received"`
		} `json:"end"`
	}
	if err := benchfmt.JSON(out, &doc); err != nil {
		return nil, fmt.Errorf("%w; run iperf3 with -J", err)
	}
	if doc.Error != "" { // with -J iperf3 reports an error here and exits with 0
		return nil, fmt.Errorf("iperf3: %s", doc.Error)
	}
	f := newFound()
	for _, s := range []*iperfSum{doc.End.Sum, doc.End.Received} {
		if s != nil {
			f.set("iperf3_bits_per_second", s.Bits)
			f.set("iperf3_jitter_ms", s.Jitter)
		}
	}
	if _, ok := f.values["iperf3_bits_per_second"]; !ok {
		return nil, errors.New("iperf3 received nothing, or its output has no sum")
	}
	if s := doc.End.Sent; s != nil && s.Retransmits > 0 {
		f.notes["iperf3_retransmits"] = strconv.FormatFloat(s.Retransmits, 'f', -1, 64)
	}
	if s := doc.End.Sum; s != nil && s.LostPercent > 0 {
		f.notes["iperf3_lost_percent"] = strconv.FormatFloat(s.LostPercent, 'g', 4, 64)
		f.warn("packets-lost", fmt.Sprintf("%.3g %% of the UDP packets were lost: the rate counts only packets that "+
			"arrived",
			s.LostPercent),
			"to measure without loss, lower iperf3's -b until no packets are lost")
	}
	return f, nil
}
