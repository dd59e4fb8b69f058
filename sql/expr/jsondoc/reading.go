package jsondoc

// Reading is the reading of documents by a statement: what they take counts until Done.
type Reading struct {
	// Ended is why the statement must end, Mem what counts; nil: nobody does.
	Ended func() error
	Mem   interface {
		Grow(n int64) error
		Shrink(n int64)
	}
	// Err is why the reading ended, if it was not the text.
	Err  error
	held int64
}

// valueBytes is about what a value of a document takes.
const valueBytes = 64

// Ask is what [Parse] is to ask.
func (r *Reading) Ask() error {
	if r.Err = r.Ended(); r.Err != nil || r.Mem == nil {
		return r.Err
	}
	if r.Err = r.Mem.Grow(valueBytes * askEvery); r.Err == nil {
		r.held += valueBytes * askEvery
	}
	return r.Err
}

// Done gives back what documents took: nobody has them any more.
func (r *Reading) Done() {
	if r.held > 0 {
		r.Mem.Shrink(r.held)
		r.held = 0
	}
}
