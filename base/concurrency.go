package base

// Concurrency is how a cluster orders transactions. It is fixed when the cluster is made.
type Concurrency string

// The modes. The zero value is Locking.
const (
	// Locking: strict two-phase locking and commit wait. Strictly serializable.
	Locking Concurrency = ""
	// ByTimestamp: timestamp ordering by hybrid logical clocks, as CockroachDB does. Serializable,
	// and linearizable for each key.
	ByTimestamp Concurrency = "timestamp"
	// ByTimestampRelay: timestamp ordering with a timestamp manager for each region (Relay, section
	// 5). Besides, transactions that touch a common region are ordered as in real time.
	ByTimestampRelay Concurrency = "timestamp-relay"
)

// ParseConcurrency reads the text that String returns. Another text is CodeInvalid.
func ParseConcurrency(s string) (Concurrency, error) {
	switch c := Concurrency(s); c {
	case ByTimestamp, ByTimestampRelay, Locking:
		return c, nil
	case "locking":
		return Locking, nil
	}
	return "", Errorf(CodeInvalid, "concurrency control is locking, timestamp or timestamp-relay, not %q", s)
}

// Ordered reports whether transactions are ordered by timestamps rather than locks.
func (c Concurrency) Ordered() bool { return c != Locking }

// String is the name of the mode, as settings and reports show it.
func (c Concurrency) String() string {
	if c == Locking {
		return "locking"
	}
	return string(c)
}
