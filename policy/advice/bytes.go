package advice

// What statements send over the WAN, in bytes, of which docs/figures/whatif.md has many: a change
// of a small row is copied to each other region in some 110, with the headers of a log's entry and
// of its transaction; a request to another region and its answer take some 165 besides the change.
const (
	copyBytes = 110
	askBytes  = 165
	readBytes = 200 // a question for a row, and the row
	leastCopy = 50
)

// far is the share of statements that are sent to another region, and wait for the answer.
func far(all []outcome) (share float64) {
	for _, o := range all {
		if o.away {
			share += o.share
		}
	}
	return share
}

// bytes is what the statements of a use would send, on average, if outcomes were after instead of
// before. How large the changes are is told by what they send now.
func (f *Facts) bytes(u *Use, before, after []outcome, p, was Place) float64 {
	was1, will := far(before), far(after)
	if u.Kind == Read && !u.Locks {
		switch {
		case will == 0:
			return 0
		case was1 > 0:
			return u.Bytes * will / was1
		}
		return readBytes * will
	}
	if p.Locality == MultiMaster {
		return 0 // its epochs are sent, which is not the statement's
	}
	copies := f.copies(was, u.Region)
	alone := 1 - u.Inside // else COMMIT sends the copies
	if u.Kind == Read {
		alone = 0
	}
	one := float64(copyBytes)
	// What locks rows in all regions, or goes round in epochs, does not tell how large a change is.
	if parts := was1 + alone*copies; parts > 0 && !(u.Whole && was.Locality == ByRow) && was.Locality != MultiMaster {
		one = max(leastCopy, (u.Bytes-was1*askBytes)/parts)
	}
	return will*(one+askBytes) + alone*f.copies(p, u.Region)*one
}
