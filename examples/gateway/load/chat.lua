-- Small chat completions of a thousand users; with STREAM=1 as streams. Prints one line of numbers.

local stream = os.getenv("STREAM") == "1" and "true" or "false"
local body = '{"model": "demo-small", "stream": ' .. stream .. ', "user": "user-%d", ' ..
    '"messages": [{"role": "user", "content": "Which account serves this?"}]}'
local number = 0

wrk.method = "POST"
wrk.headers["content-type"] = "application/json"
wrk.headers["authorization"] = "Bearer " .. (os.getenv("LOAD_KEY") or "any")

function request()
    number = number + 1
    return wrk.format(nil, nil, nil, string.format(body, number % 1000))
end

function done(summary, latency, _)
    local errors = summary.errors
    local failed = errors.connect + errors.read + errors.write + errors.status + errors.timeout
    io.write(string.format("RESULT %.0f %.3f %.3f %d\n",
        summary.requests / (summary.duration / 1e6),
        latency:percentile(50) / 1e3, latency:percentile(99) / 1e3, failed))
end
