package console

import (
	"sync"
	"time"
)

// sharedFor is how long what one session has been shown is shown to others of the same account,
// too: less than the time after which a page asks again. What the account may not see any more may
// be seen for so much longer.
const sharedFor = 2500 * time.Millisecond

// shared keeps the newest answer to each page by account, so that many viewers cost what one does.
type shared struct {
	mu  sync.Mutex
	all map[[2]string]shown // by page and account
}

// get is what the account was shown lately, if it was.
func (s *shared) get(page, account string, now time.Time) (shown, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out, ok := s.all[[2]string{page, account}]
	return out, ok && now.Sub(out.At) < sharedFor
}

// put keeps an answer, and drops those that are too old.
func (s *shared) put(page, account string, out shown) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[[2]string]shown{}
	}
	for k, old := range s.all {
		if out.At.Sub(old.At) >= sharedFor {
			delete(s.all, k)
		}
	}
	s.all[[2]string{page, account}] = out
}
