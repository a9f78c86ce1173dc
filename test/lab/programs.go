package lab

import (
	"context"
	"fmt"
	"os/exec"
	"path"
	"path/filepath"
	"sync"
)

// Programs builds programs of this module, each when it is first asked for. They
// have the race detector if the asking program has it and they are not Fast.
type Programs struct {
	// Dir is where the programs go; Root is the module's folder.
	Dir, Root string
	// Extra names more programs by the folder of their package below Root, such
	// as "./test/acceptance/internal/scripted".
	Extra []string
	// Fast builds them as they are deployed: the race detector makes them ten
	// times slower.
	Fast bool

	mu   sync.Mutex // guards done, and lets one build go on at a time
	done map[string]error
}

// stock is built together, since nearly everybody needs all three.
var stock = [...]string{"worker", "dispatcher", "reconciler"}

// Path returns the path of a program by the last element of its package's path:
// worker, dispatcher, reconciler, leasehold, or one of Extra.
func (p *Programs) Path(ctx context.Context, name string) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	err, known := p.done[name]
	if !known {
		err = p.build(ctx, name)
	}
	return filepath.Join(p.Dir, name), err
}

func (p *Programs) build(ctx context.Context, name string) error {
	names, folders := []string{name}, []string{"./cmd/" + name}
	for _, s := range stock {
		if name == s {
			names, folders = stock[:], nil
			for _, s := range stock {
				folders = append(folders, "./cmd/"+s)
			}
		}
	}
	for _, folder := range p.Extra {
		if path.Base(folder) == name {
			folders = []string{folder}
		}
	}
	// Linking is most of it, and debug information is most of linking.
	args := []string{"build", "-buildvcs=false", "-ldflags=-w", "-o", p.Dir + string(filepath.Separator)}
	if raceDetector && !p.Fast {
		args = append(args, "-race")
	}
	cmd := exec.CommandContext(ctx, "go", append(args, folders...)...)
	cmd.Dir = p.Root
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("build %v: %w\n%s", names, err, out)
	}
	for _, n := range names {
		p.note(n, err)
	}
	return err
}

func (p *Programs) note(name string, err error) {
	if p.done == nil {
		p.done = map[string]error{}
	}
	p.done[name] = err
}
