package sqlfront

// TxnCost is what transactions cost on the WAN.
type TxnCost struct {
	Transactions    int   // committed
	Hops            int   // one-way crossings waited for
	Bytes, Messages int64 // caused, waited for or not
}

// charge attributes what the session has spent since the last commit to the transactions that just committed.
func (h *handler) charge(s *Session) {
	if s.committed == 0 || s.remote { // the asker is charged
		return
	}
	now := TxnCost{Hops: s.trace.Hops(), Bytes: s.trace.Bytes(), Messages: s.trace.Messages()}
	cost := TxnCost{Transactions: s.committed, Hops: now.Hops - s.charged.Hops, Bytes: now.Bytes - s.charged.Bytes, Messages: now.Messages - s.charged.Messages}
	s.committed, s.charged = 0, now
	if h.g.onTxn != nil {
		h.g.onTxn(cost)
	}
}
