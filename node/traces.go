package node

import (
	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/obs"
	"github.com/godwitdb/godwit/obs/otlp"
)

func (c *Config) collector() otlp.Collector {
	return otlp.Collector{Endpoint: c.OTLPEndpoint, Headers: c.OTLPHeaders, CA: c.OTLPCA, Cert: c.OTLPCert, Key: c.OTLPKey}
}

// startTraces sends the traces of this node to a collector, if there is one.
func (n *Node) startTraces(cfg *Config) error {
	if cfg.OTLPEndpoint == "" {
		return nil
	}
	region := func(id uint32) string { return n.cluster.Topology().RegionName(base.RegionID(id)) }
	tracer, stop, err := otlp.Start(cfg.collector(), cfg.OTLPRatio, region, n.log, []obs.Attr{
		{Key: "service.name", Value: "godwit"}, {Key: "service.version", Value: obs.Version()},
		{Key: "service.instance.id", Value: cfg.Advertise}, {Key: "godwit.region", Value: cfg.Region}})
	if err != nil {
		return err
	}
	n.tracer = tracer
	n.closeLast(stop)
	return nil
}
