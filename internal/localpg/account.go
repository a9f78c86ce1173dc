package localpg

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
)

// account is the user that server processes run as.
type account struct {
	name     string
	uid, gid uint32
	// switched is true when the program itself is root, so that processes and files change hands.
	switched bool
}

// serverAccount picks the current user, or an unprivileged one when that is root: PostgreSQL
// refuses to run as root because a bug in it would be a bug in root.
func serverAccount() (account, error) {
	if os.Geteuid() != 0 {
		return account{name: strconv.Itoa(os.Geteuid()), uid: uint32(os.Geteuid()), gid: uint32(os.Getegid())}, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		found, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, errUID := strconv.ParseUint(found.Uid, 10, 32)
		gid, errGID := strconv.ParseUint(found.Gid, 10, 32)
		if errUID != nil || errGID != nil || uid == 0 {
			continue
		}
		return account{name: name, uid: uint32(uid), gid: uint32(gid), switched: true}, nil
	}
	return account{}, errors.New("find an unprivileged user: neither postgres nor nobody exists, and PostgreSQL refuses to run as root")
}

// command prepares a child that runs as the account, with nothing of the program's environment: a
// PGPORT or PGDATA of the developer would silently point a server at another directory.
func (a account) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = []string{"PATH=/usr/bin:/bin", "LC_ALL=C", "TZ=UTC", "HOME=/"}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	if a.switched {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: a.uid, Gid: a.gid}
	}
	return cmd
}

// own hands paths over to the account.
func (a account) own(paths ...string) error {
	if !a.switched {
		return nil
	}
	for _, path := range paths {
		if err := os.Lchown(path, int(a.uid), int(a.gid)); err != nil {
			return fmt.Errorf("hand %s to user %s: %w", path, a.name, err)
		}
	}
	return nil
}

// canReach reports why the account cannot get to path, by asking the kernel as that account.
// Reading mode bits instead would miss access lists, and root itself can reach everything.
func (a account) canReach(ctx context.Context, path string) error {
	if !a.switched {
		return nil
	}
	if err := a.command(ctx, "/bin/sh", "-c", `cd -- "$1"`, "sh", path).Run(); err != nil {
		return fmt.Errorf("%s is not reachable for user %s: give o+x to each directory above it, or choose another one",
			path, a.name)
	}
	return nil
}
