package exectool

import (
	"io"
	"os"
)

// head keeps the beginning of an output and reads the rest away, so that the
// command never waits for us.
type head struct {
	limit int
	bytes []byte
	more  bool
}

func (h *head) ReadFrom(r *os.File) (int64, error) {
	return drainInto(r, func(b []byte) {
		n := min(len(b), h.limit-len(h.bytes))
		h.bytes = append(h.bytes, b[:n]...)
		h.more = h.more || n < len(b)
	})
}

// tail keeps the end.
type tail struct {
	limit int
	bytes []byte
	more  bool
}

func (t *tail) ReadFrom(r *os.File) (int64, error) {
	return drainInto(r, func(b []byte) {
		t.bytes = append(t.bytes, b...)
		if over := len(t.bytes) - t.limit; over > 0 {
			t.bytes, t.more = append(t.bytes[:0], t.bytes[over:]...), true
		}
	})
}

func drainInto(r io.Reader, take func([]byte)) (total int64, err error) {
	buffer := make([]byte, 16<<10)
	for {
		n, err := r.Read(buffer)
		total += int64(n)
		take(buffer[:n])
		if err != nil {
			return total, err
		}
	}
}
