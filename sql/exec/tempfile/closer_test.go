package tempfile

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// slowFile is a file whose removal lasts until it may end.
type slowFile struct {
	may    chan struct{}
	closed *atomic.Int32
}

// Close implements io.Closer.
func (f slowFile) Close() error {
	<-f.may
	f.closed.Add(1)
	return nil
}

// TestFilesCloseAside: nobody waits for the removal of temporary files, but for those beyond the
// bound, and all are removed.
func TestFilesCloseAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c closer
		var closed atomic.Int32
		f := slowFile{make(chan struct{}), &closed}
		for range mostClosing {
			c.close(f)
		}
		synctest.Wait()
		if n := closed.Load(); n != 0 {
			t.Fatalf("%d files are closed", n)
		}
		over := false
		go func() {
			c.close(f)
			over = true
		}()
		synctest.Wait()
		if over {
			t.Error("more files than the bound wait to be closed")
		}
		close(f.may)
		synctest.Wait()
		if n := closed.Load(); n != mostClosing+1 || !over || c.runs || len(c.files) != 0 {
			t.Errorf("%d files were closed, of %d", n, mostClosing+1)
		}
		c.close(f)
		synctest.Wait()
		if closed.Load() != mostClosing+2 {
			t.Error("a file is left open")
		}
	})
}
