#!lua flags=no-writes
-- The hints that have not expired. Keys: requests.lua (hints, hinted).
-- Returns {'<tenant>:<task>', packed [size, when (us)]} each

local P, call = KEYS[1], redis.call
local clock = call('TIME')
local now_ms = math.floor(tonumber(clock[1]) * 1000 + tonumber(clock[2]) / 1000)
local found = {}
for i, name in ipairs(call('ZRANGEBYSCORE', P .. 'hinted', '(' .. now_ms, '+inf')) do
  found[i] = { name, call('HGET', P .. 'hints', name) }
end
return found
