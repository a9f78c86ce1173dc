package migrations

// For tests that bring their own files.
var (
	UpFiles     = up
	StatusFiles = readStatus
	UpLockID    = int64(upLockID)
	GooseLockID = int64(gooseLockID)
)
