-- Opening a batch: checked first, then written. Included after letters.lua.
-- `a` is what the scripts that open batches have as their first arguments:
--   tenant batch task size k deadline_after_ms batches_max overdue_ms kept_ms history weight
--   results_max requests bytes requests_max bytes_max record first_stage tasks_max task_kept_ms deadline_us gathers
--   deadline_us: an instant; the later of it and of now + deadline_after_ms is the deadline
--   requests, bytes: quota that the batch takes now; see `reserved` in requests.lua
--   record: of the task, to be registered if it is not there; '' = it must be there
--   gathers: the stage of a task to be registered that judges whole groups; '' = none
--
-- What the opening of a batch was refused for, or 'THERE'; or nil, and what `write_opening` needs.
local function check_opening(a)
  local tenant, batch, task, size, k = unpack(a, 1, 5)
  local requests, bytes, record = tonumber(a[13]), tonumber(a[14]), a[17]
  local there = call('HMGET', P .. 'b:' .. tenant .. ':' .. batch, 'task', 'size', 'k')
  if there[1] then
    return there[1] == task and there[2] == size and there[3] == k and 'THERE' or 'CONFLICT'
  end
  local task_key = P .. 't:' .. tenant .. ':' .. task
  local registered = call('HMGET', task_key, 'n', 'first', 'kept', 'until', 'refreshed', 'gathers')
  local is_new = not registered[1]
  if is_new and record == '' then return 'NOT_FOUND' end
  if not is_new and record ~= '' and call('HGET', task_key, 'rec') ~= record then
    return 'OTHER_TASK'
  end
  if requests > tonumber(a[15]) then return 'OVER_REQUESTS' end
  if bytes > tonumber(a[16]) then return 'OVER_BYTES' end
  local held = call('HMGET', P .. 'quota:' .. tenant, 'batches', 'requests', 'bytes')
  for i = 1, 3 do held[i] = tonumber(held[i] or 0) end
  if held[1] >= tonumber(a[7]) then return 'SATURATED' end
  if requests > 0 and held[2] + requests > tonumber(a[15]) then return 'QUOTA_REQUESTS' end
  if bytes > 0 and held[3] + bytes > tonumber(a[16]) then return 'QUOTA_BYTES' end
  if is_new and not has_room_for_task(tenant, a[19]) then return 'QUOTA_TASKS' end
  return nil, {
    registered = registered, held = held, is_new = is_new, requests = requests, bytes = bytes,
    first = is_new and a[18] or registered[2],
    gathers = is_new and a[22] ~= '' and a[22] or not is_new and registered[6],
    deadline = math.max(NOW_US + tonumber(a[6]) * 1000, tonumber(a[21])),
  }
end

local function write_opening(a, o)
  local tenant, batch, task, size, k = unpack(a, 1, 5)
  local uid, task_name = tenant .. ':' .. batch, tenant .. ':' .. task
  local key, registered, held = P .. 'b:' .. uid, o.registered, o.held
  if o.is_new then
    local number = store_task(tenant, task, a[17], a[18], a[22], a[20])
    registered = { number, a[18], a[20], false, false }
  end
  local deadline_ms = math.ceil(o.deadline / 1000)
  drop_letters(uid, SLICE * 10) -- of an earlier batch of this name
  delete(doomed)
  call('ZREM', P .. 'gone', uid)
  call('HSET', P .. 'quota:' .. tenant, 'batches', held[1] + 1, 'requests', held[2] + o.requests,
    'bytes', held[3] + o.bytes)
  call('HSET', key, 'tenant', tenant, 'batch', batch, 'task', task, 'tn', registered[1],
    'first', o.first, 'state', 'OPEN', 'closing', '', 'size', size, 'k', k,
    'opened', NOW_US, 'deadline', o.deadline, 'completed', 0, 'submitted', 0, 'ended', 0,
    'running', 0, 'overdue', a[8], 'kept', a[9], 'history', a[10],
    'number', call('HINCRBY', P .. 't:' .. task_name, 'batches', 1) - 1, 'rank', 0, 'risk', 0, 'natural', 0,
    'grouped', 0, 'shift', 0, 'weight', a[11], 'results_max', a[12], 'reserved', o.requests .. ' ' .. o.bytes)
  if o.gathers then call('HSET', key, 'gathers', o.gathers) end
  call('ZADD', P .. 'open', deadline_ms, uid)
  call('ZADD', P .. 'due', deadline_ms + tonumber(a[8]), uid)
  use_task(task_name, deadline_ms - NOW_MS + tonumber(a[8]) + tonumber(a[9]),
    { unpack(registered, 3, 5) })
  if call('ZREM', P .. 'hinted', task_name) == 1 then call('HDEL', P .. 'hints', task_name) end
  tell_planners()
end
