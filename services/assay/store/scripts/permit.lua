#!lua
-- Takes leave for one call of a provider, under a limit of calls and one of tokens (GCRA: see
-- `assay.core.tools.rate`). Nothing is taken unless both allow it.
-- Keys (KEYS[1] is the prefix): rl:<kind>:<tenant>:<provider> STRING when it would be free (us)
-- ARGV: tenant:provider, then per limit: kind cost per_minute (0 = any number)
-- Returns 0, or the microseconds to wait

local P, call, MINUTE = KEYS[1], redis.call, 60000000
local now = call('TIME')
local now_us = tonumber(now[1]) * 1000000 + tonumber(now[2])
local free = {}
for at = 2, #ARGV, 3 do
  local per_minute = tonumber(ARGV[at + 2])
  if per_minute > 0 then
    local key = P .. 'rl:' .. ARGV[at] .. ':' .. ARGV[1]
    local begin = math.max(tonumber(call('GET', key) or '0'), now_us)
    local share = math.floor(math.min(tonumber(ARGV[at + 1]), per_minute) / per_minute * MINUTE)
    local wait = begin + share - (now_us + MINUTE)
    if wait > 0 then return wait end
    free[key] = begin + share
  end
end
for key, at_us in pairs(free) do
  call('SET', key, string.format('%.0f', at_us), 'PX', 2 * MINUTE / 1000)
end
return 0
