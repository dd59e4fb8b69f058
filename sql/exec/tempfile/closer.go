package tempfile

import (
	"io"
	"sync"
)

// closer closes files beside who lets go of them. A file without a name is removed when it is
// closed, which takes 60 ms for each GiB, and nothing interrupts the operating system meanwhile:
// statements that were killed need not wait for it.
type closer struct {
	mu    sync.Mutex
	files []io.Closer
	runs  bool
}

// mostClosing is how many files wait to be closed at most. One more is closed at once.
const mostClosing = 256

// aside closes the temporary files of this process.
var aside closer

func (c *closer) close(f io.Closer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.files) >= mostClosing {
		c.mu.Unlock()
		_ = f.Close() // it has no name; nothing is lost
		c.mu.Lock()
		return
	}
	if c.files = append(c.files, f); !c.runs {
		c.runs = true
		go c.run()
	}
}

// run closes files until there are none.
func (c *closer) run() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.files) > 0 {
		f := c.files[0]
		c.mu.Unlock()
		_ = f.Close() // see close
		c.mu.Lock()
		c.files = c.files[1:]
	}
	c.files, c.runs = nil, false
}
