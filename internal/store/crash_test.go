package store_test

const crashURL = "WEIR_STORE_CRASH_URL"

func commitUntilKilled(url string) {}
