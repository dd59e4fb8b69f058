package node

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/obs"
	"github.com/godwitdb/godwit/obs/otlp"
)

// spanQueue is how many spans wait for the collector. One more, and it is dropped.
const spanQueue = 8192

func (c *Config) validateTraces() error {
	if c.OTLPRatio < 0 || c.OTLPRatio > 1 {
		return fmt.Errorf("otlp-ratio: %v is outside 0 to 1", c.OTLPRatio)
	}
	if c.OTLPEndpoint == "" {
		return nil
	}
	if _, err := otlp.Endpoint(c.OTLPEndpoint); err != nil {
		return fmt.Errorf("otlp-endpoint: %w", err)
	}
	return nil
}

// startTraces sends the traces of this node to a collector, if there is one.
func (n *Node) startTraces(cfg *Config) error {
	if cfg.OTLPEndpoint == "" {
		return nil
	}
	to, err := otlp.Endpoint(cfg.OTLPEndpoint)
	if err != nil {
		return err
	}
	n.tracer = obs.NewTracer(cfg.OTLPRatio, spanQueue)
	n.tracer.Region = func(id uint32) string { return n.cluster.Topology().RegionName(base.RegionID(id)) }
	e := &otlp.Exporter{Endpoint: to, Tracer: n.tracer, Log: n.log, Resource: []obs.Attr{
		{Key: "service.name", Value: "godwit"}, {Key: "service.version", Value: obs.Version()},
		{Key: "service.instance.id", Value: cfg.Advertise}, {Key: "godwit.region", Value: cfg.Region}}}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.Run(ctx)
	}()
	n.closeLast(func() error {
		cancel()
		<-done
		return nil
	})
	return nil
}

// spansDropped counts spans that no collector has got.
func (n *Node) spansDropped() prometheus.Collector {
	return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "godwit_trace_spans_dropped_total",
		Help: "Spans that were not sent, since the queue was full or the collector did not take them."}, func() float64 {
		if n.tracer == nil {
			return 0
		}
		return float64(n.tracer.Dropped())
	})
}
