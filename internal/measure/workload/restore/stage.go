package restore

import (
	"time"

	"tare/internal/measure/workload"
	"tare/internal/sys/clock"
)

// stage is the record of one stage.
type stage struct {
	name  string
	wall  time.Duration
	cpu   time.Duration
	bytes int64
	ios   int64
}

// meter times stages.
type meter struct {
	disk    *disk                         // disk of the work; nil if it is not known
	servers func() (time.Duration, error) // CPU time of programs that are not children of this process; may be nil
	stages  []stage
	doubted bool // the CPU time of a server could not be read
}

// run times one stage, which returns the number of bytes processed.
func (m *meter) run(name string, do func() (int64, error)) error {
	cpu, ios := m.cpu(), m.disk.completed()
	begin := clock.Now()
	n, err := do()
	wall := clock.Since(begin)
	m.stages = append(m.stages, stage{name, wall, m.cpu() - cpu, n, m.disk.completed() - ios})
	return err
}

func (m *meter) cpu() time.Duration {
	t := ownCPU()
	if m.servers != nil {
		more, err := m.servers()
		if err != nil {
			m.doubted = true
		}
		t += more
	}
	return t
}

// report reports the figures of the stages. A figure that the system does not provide is left out.
func (m *meter) report(b *workload.Bench) {
	for _, s := range m.stages {
		seconds := max(s.wall.Seconds(), 1e-9)
		b.Report(s.name+"_seconds", seconds)
		if s.cpu > 0 && !m.doubted {
			b.Report(s.name+"_cpu_seconds", s.cpu.Seconds())
		}
		if s.bytes > 0 {
			b.Report(s.name+"_bytes_per_second", float64(s.bytes)/seconds)
		}
		if s.ios > 0 {
			b.Report(s.name+"_io_per_second", float64(s.ios)/seconds)
		}
	}
}
