package callbacks

// Status is the HTTP status that goes with a code.
func Status(code string) int { return answerOf(code).status }
