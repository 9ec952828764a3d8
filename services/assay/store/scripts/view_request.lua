#!lua flags=no-writes
-- Looks for a request among some of those of its batch that have not ended. Keys: requests.lua
-- (live, j).
-- ARGV: uid request cursor ('0' = from the start) jobs_max
-- Returns {cursor to continue from ('0' = none is left)}, and, where it is: {cursor, job, D, S}

local P, call = KEYS[1], redis.call
local cursor, jobs =
  unpack(call('SSCAN', P .. 'live:' .. ARGV[1], ARGV[3], 'COUNT', tonumber(ARGV[4])))
for _, job in ipairs(jobs) do
  local j = call('HMGET', P .. 'j:' .. job, 'D', 'S')
  if j[2] and cmsgpack.unpack(j[2])[1] == ARGV[2] then return { cursor, job, j[1], j[2] } end
end
return { cursor }
