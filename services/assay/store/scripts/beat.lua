#!lua flags=allow-oom
-- Renew leases, each until it was held for held_ms at most. Keys: requests.lua.
-- ARGV: stage lease_ms held_ms, then job fence each
-- Returns indexes (from 0) of the leases lost
--@include requests.lua

local expiry, held_ms = NOW_MS + tonumber(ARGV[2]), tonumber(ARGV[3])
local kept, lost = {}, {}
for i = 4, #ARGV, 2 do
  local j = read_job(ARGV[i])
  local ends = 0
  if j and j.state == 'L' and j.fence == tonumber(ARGV[i + 1]) and j.stage == ARGV[1] then
    ends = math.min(expiry, math.floor(j.claimed / 1000) + held_ms)
  end
  if ends > NOW_MS then
    kept[#kept + 1] = ends
    kept[#kept + 1] = ARGV[i]
  else
    lost[#lost + 1] = (i - 4) / 2
  end
end
in_slices('ZADD', P .. 'l:' .. ARGV[1], kept)
return lost
