-- Registration of a task. Included after task_use.lua.

local function has_room_for_task(tenant, tasks_max)
  local own = P .. 'tt:' .. tenant
  return call('ZCOUNT', own, '(' .. NOW_MS, '+inf') < tonumber(tasks_max)
end

local function keep_stages(key, record, first, gathers)
  call('HSET', key, 'rec', record, 'first', first)
  if gathers == '' then call('HDEL', key, 'gathers') else call('HSET', key, 'gathers', gathers) end
end

-- Store a new task; `use_task` of the caller sets its expiries. Returns its number.
local function store_task(tenant, task, record, first, gathers, kept_ms)
  local number = call('INCR', P .. 'tasks')
  call('ZREMRANGEBYSCORE', P .. 'tt:' .. tenant, '-inf', NOW_MS)
  local key = P .. 't:' .. tenant .. ':' .. task
  call('HSET', key, 'n', number, 'kept', kept_ms)
  keep_stages(key, record, first, gathers)
  return number
end
