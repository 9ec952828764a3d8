#!lua
-- Store a finished artifact, or record that making it failed; wake the waiters.
-- Beyond the total, the owner that holds most loses its oldest one: one with at most an even share loses none to another.
-- Keys (KEYS[1] is the prefix): as in artifact_begin.lua, and for all artifacts together
-- ax ZSET key -> expiry (ms); az HASH key -> bytes with those of its entry; at STRING their sum;
-- ao ZSET owner -> bytes; ax:<owner> ZSET bytes:key -> expiry. An owner is what stands in `of:<owner>:` in the key.
-- ARGV: key kept_ms bytes_total_max content ('=...', or '' when the making failed)

local P, call = KEYS[1], redis.call
local WAKE_MS, DROPS_MAX = 10000, 1000
-- What an entry takes beside its content, measured: a bound on contents alone would let small ones fill the server.
local ENTRY_BYTES = 640
local clock = call('TIME')
local now_ms = tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)
local key, kept_ms, bytes_max, content = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]

local function owner_of(one)
  return string.match(one, 'of:(%x+):') or ''
end

-- Of an earlier release or dropped by one: it may be counted in one place only.
local function uncount(owner, entry, bytes)
  if call('ZREM', P .. 'ax:' .. owner, entry) == 0 then return end
  if tonumber(call('ZINCRBY', P .. 'ao', -bytes, owner)) <= 0 then call('ZREM', P .. 'ao', owner) end
end

local function drop(one)
  if not one then return end
  local bytes = call('HGET', P .. 'az', one)
  call('DEL', P .. 'a:' .. one)
  call('ZREM', P .. 'ax', one)
  if not bytes then return end
  call('DECRBY', P .. 'at', bytes)
  call('HDEL', P .. 'az', one)
  uncount(owner_of(one), bytes .. ':' .. one, bytes)
end

local function drop_of_largest()
  local owner = call('ZREVRANGE', P .. 'ao', 0, 0)[1]
  if not owner then return drop(call('ZRANGE', P .. 'ax', 0, 0)[1]) end
  local entry = call('ZRANGE', P .. 'ax:' .. owner, 0, 0)[1]
  if not entry then return call('ZREM', P .. 'ao', owner) end
  local bytes, one = string.match(entry, '^(%d+):(.*)$')
  drop(one)
  uncount(owner, entry, bytes)
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
local size, owner = #content + ENTRY_BYTES, owner_of(key)
call('HSET', P .. 'az', key, size)
call('ZADD', P .. 'ax:' .. owner, now_ms + kept_ms, size .. ':' .. key)
call('ZINCRBY', P .. 'ao', size, owner)
local total = call('INCRBY', P .. 'at', size)
for _ = 1, DROPS_MAX do
  if total <= bytes_max then break end
  drop_of_largest()
  total = tonumber(call('GET', P .. 'at'))
end
return 1
