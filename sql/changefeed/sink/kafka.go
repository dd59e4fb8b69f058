package sink

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// kafka produces with an idempotent producer that waits for all replicas in sync. The partition of
// a message is that of its key's hash, as Kafka's own clients choose it.
type kafka struct {
	c *kgo.Client
	a *Address
}

// mechanisms are those of SASL.
var mechanisms = []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"}

func (a *Address) checkKafka() error {
	_, err := a.kafkaOptions()
	return err
}

// kafkaOptions are those of the parameters.
func (a *Address) kafkaOptions() (opts []kgo.Opt, err error) {
	secure, err := a.on(pTLS)
	if err != nil {
		return nil, err
	}
	conf, err := a.tls()
	if err != nil {
		return nil, err
	}
	if secure {
		opts = append(opts, kgo.DialTLSConfig(conf))
	} else if slices.ContainsFunc(tlsParameters, a.q.Has) {
		return nil, errors.New("ca_cert, client_cert and client_key take tls_enabled=true")
	}
	with, err := a.on(pSASL)
	if err != nil {
		return nil, err
	}
	given := slices.ContainsFunc([]string{pMechanism, pUser, pPassword}, a.q.Has)
	if !with {
		if given {
			return nil, errors.New("sasl_mechanism, sasl_user and sasl_password take sasl_enabled=true")
		}
		return opts, nil
	}
	user, password := a.q.Get(pUser), a.q.Get(pPassword)
	if user == "" || password == "" {
		return nil, errors.New("sasl_enabled=true takes sasl_user and sasl_password")
	}
	var m sasl.Mechanism
	switch s := (scram.Auth{User: user, Pass: password}); strings.ToUpper(a.q.Get(pMechanism)) {
	case "", "PLAIN":
		if !secure {
			return nil, errors.New("PLAIN sends the password as it is: it takes tls_enabled=true, or use SCRAM-SHA-256 or SCRAM-SHA-512")
		}
		m = plain.Auth{User: user, Pass: password}.AsMechanism()
	case "SCRAM-SHA-256":
		m = s.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		m = s.AsSha512Mechanism()
	default:
		return nil, errors.New("sasl_mechanism is one of " + strings.Join(mechanisms, ", "))
	}
	return append(opts, kgo.SASL(m)), nil
}

const (
	// delivery is for how long a message is tried before Emit fails: the job then says so, and goes
	// on from where it was.
	delivery = 20 * time.Second
	// mostBuffered bounds the messages that wait for Kafka, in bytes.
	mostBuffered = 32 << 20
)

func openKafka(a *Address, s Settings) (Sink, error) {
	opts, err := a.kafkaOptions()
	if err != nil {
		return nil, &PermanentError{err.Error()}
	}
	opts = append(opts, kgo.SeedBrokers(a.Hosts...), kgo.ClientID("godwit-"+s.Name), kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.RecordPartitioner(partitioner{kgo.StickyKeyPartitioner(nil)}), kgo.RecordDeliveryTimeout(delivery),
		kgo.MaxBufferedBytes(mostBuffered), kgo.AllowAutoTopicCreation(), kgo.UnknownTopicRetries(20))
	switch s.Compression {
	case "gzip":
		opts = append(opts, kgo.ProducerBatchCompression(kgo.GzipCompression()))
	case "zstd":
		opts = append(opts, kgo.ProducerBatchCompression(kgo.ZstdCompression()))
	}
	c, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, &PermanentError{"the client of Kafka: " + err.Error()}
	}
	return &kafka{c: c, a: a}, nil
}

func (*kafka) Linger() time.Duration { return 0 }

func (k *kafka) Close() error { k.c.Close(); return nil }

func (*kafka) Reached(uint64) {}

// partitioner is Kafka's own for what has a key. Marks have none: they say where they go.
type partitioner struct{ byKey kgo.Partitioner }

// ForTopic implements kgo.Partitioner.
func (p partitioner) ForTopic(t string) kgo.TopicPartitioner {
	return topicPartitioner{p.byKey.ForTopic(t)}
}

type topicPartitioner struct{ kgo.TopicPartitioner }

func (topicPartitioner) RequiresConsistency(*kgo.Record) bool { return true }

func (p topicPartitioner) Partition(r *kgo.Record, n int) int {
	if r.Key == nil {
		return int(r.Partition)
	}
	return p.TopicPartitioner.Partition(r, n)
}

// Emit implements Sink.
func (k *kafka) Emit(ctx context.Context, batch []Message) error {
	rs := make([]*kgo.Record, len(batch))
	for i, m := range batch {
		rs[i] = &kgo.Record{Topic: m.Topic, Key: m.Key, Value: m.Value}
	}
	return k.produce(ctx, rs)
}

// produce waits for all records. After a failure the client gives up all that waits: what is behind
// a record that failed must not arrive before it.
func (k *kafka) produce(ctx context.Context, rs []*kgo.Record) error {
	var mu sync.Mutex
	var failed error
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, r := range rs {
		mu.Lock()
		stop := failed != nil
		mu.Unlock()
		if stop {
			break
		}
		wg.Add(1)
		k.c.Produce(ctx, r, func(_ *kgo.Record, err error) {
			defer wg.Done()
			if err == nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if failed == nil {
				failed = err
				cancel()
			}
		})
	}
	wg.Wait()
	if failed == nil {
		return nil
	}
	var ke *kerr.Error
	if errors.As(failed, &ke) && slices.Contains([]*kerr.Error{kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.InvalidTopicException}, ke) {
		return &PermanentError{fmt.Sprintf("Kafka at %s: %v", strings.Join(k.a.Hosts, ","), failed)}
	}
	return fmt.Errorf("the brokers of Kafka at %s: %w", strings.Join(k.a.Hosts, ","), failed)
}

// Mark implements Sink: each partition of each topic gets the mark, behind what it marks.
func (k *kafka) Mark(ctx context.Context, topics []string, m Mark) error {
	req := kmsg.NewPtrMetadataRequest()
	req.AllowAutoTopicCreation = true
	for _, t := range topics {
		rt := kmsg.NewMetadataRequestTopic()
		rt.Topic = kmsg.StringPtr(t)
		req.Topics = append(req.Topics, rt)
	}
	ctx, cancel := context.WithTimeout(ctx, delivery)
	defer cancel()
	res, err := req.RequestWith(ctx, k.c)
	if err != nil {
		return fmt.Errorf("the brokers of Kafka at %s: %w", strings.Join(k.a.Hosts, ","), err)
	}
	var out []*kgo.Record
	for _, t := range res.Topics {
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
			return fmt.Errorf("topic %s of Kafka at %s: %w", str(t.Topic), strings.Join(k.a.Hosts, ","), err)
		}
		for _, p := range t.Partitions {
			out = append(out, &kgo.Record{Topic: str(t.Topic), Partition: p.Partition, Value: m.value(str(t.Topic))})
		}
	}
	return k.produce(ctx, out)
}

func str(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
