-- How long a task stays registered. Included after requests.lua.

-- Write a task's expiries; they last `extra_ms` longer than they must.
local function refresh_task(name, kept_ms, extra_ms)
  local key = P .. 't:' .. name
  local own = P .. 'tt:' .. string.match(name, '^[^:]*')
  local used, common_ms = P .. 'used', TASK_KEPT_MS + TASK_REFRESH_MS -- until the next refresh
  kept_ms = math.max(kept_ms + extra_ms, call('PTTL', key))
  call('HSET', key, 'until', NOW_MS + kept_ms, 'refreshed', NOW_MS)
  call('PEXPIRE', key, kept_ms)
  call('ZADD', own, NOW_MS + kept_ms, string.match(name, '[^:]*$'))
  call('PEXPIRE', own, math.max(kept_ms, common_ms))
  call('PEXPIRE', P .. 'h:' .. name, common_ms)
  call('PEXPIRE', used, common_ms)
  call('ZREMRANGEBYRANK', used, 0, -TASKS_LISTED_MAX - 1)
  local old = NOW_US - TASK_KEPT_MS * 1000
  local gone = call('ZRANGEBYSCORE', used, '-inf', old, 'LIMIT', 0, SLICE)
  if #gone > 0 then call('ZREM', used, unpack(gone)) end
end

-- A task was used: list it first, and keep it for at least `needed_ms` more. `facts` are its fields
-- kept, until, refreshed. The expiries are written for longer than they must last, and again only
-- when they are too early for this use, or `TASK_REFRESH_MS` after the last time.
local function use_task(name, needed_ms, facts)
  local listed = call('ZADD', P .. 'used', NOW_US, name) == 0
  local own_ms = tonumber(facts[1] or TASK_KEPT_MS)
  local kept_ms = math.max(own_ms, needed_ms)
  local refreshed_ms = tonumber(facts[3] or 0)
  local recent = refreshed_ms <= NOW_MS and NOW_MS < refreshed_ms + TASK_REFRESH_MS
  if listed and recent and NOW_MS + kept_ms <= tonumber(facts[2]) then return end
  local extra_ms = math.min(TASK_REFRESH_MS, math.floor(own_ms / EXTRA_PART))
  refresh_task(name, kept_ms, extra_ms)
end
