#!lua
-- Store a finished artifact, or record that making it failed; wake the waiters.
-- Keys (KEYS[1] is the prefix): as in artifact_begin.lua, and for all artifacts together
-- ax ZSET key -> expiry (ms); az HASH key -> bytes with those of its entry; at STRING their sum
-- ARGV: key kept_ms bytes_total_max content ('=...', or '' when the making failed)

local P, call = KEYS[1], redis.call
local WAKE_MS, DROPS_MAX = 10000, 1000
-- What an entry takes beside its content, measured: a bound on contents alone would let small ones fill the server.
local ENTRY_BYTES = 640
local clock = call('TIME')
local now_ms = tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)
local key, kept_ms, bytes_max, content = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]

local function drop(oldest)
  call('DEL', P .. 'a:' .. oldest)
  call('ZREM', P .. 'ax', oldest)
  call('DECRBY', P .. 'at', call('HGET', P .. 'az', oldest))
  call('HDEL', P .. 'az', oldest)
end

call('DEL', P .. 'ab:' .. key)
call('DEL', P .. 'am:' .. key)
call('RPUSH', P .. 'am:' .. key, '1')
call('PEXPIRE', P .. 'am:' .. key, WAKE_MS)
if content == '' then return 0 end

if call('ZSCORE', P .. 'ax', key) then drop(key) end
for _, old in ipairs(call('ZRANGEBYSCORE', P .. 'ax', '-inf', now_ms, 'LIMIT', 0, DROPS_MAX)) do
  drop(old)
end
call('SET', P .. 'a:' .. key, content, 'PX', kept_ms)
call('ZADD', P .. 'ax', now_ms + kept_ms, key)
local size = #content + ENTRY_BYTES
call('HSET', P .. 'az', key, size)
local total = call('INCRBY', P .. 'at', size)
for _ = 1, DROPS_MAX do
  if total <= bytes_max then break end
  drop(call('ZRANGE', P .. 'ax', 0, 0)[1])
  total = tonumber(call('GET', P .. 'at'))
end
return 1
